"""`rods doctor`: is this directory, and this installation, fit for a run?"""
