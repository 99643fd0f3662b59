"""Look inside the synthesis of a run: which variants were accepted, which were not, and why."""
