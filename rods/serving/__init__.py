"""Model servers that a role starts and keeps: used by both jobs, which never import each other."""
