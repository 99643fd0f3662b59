"""Is a run directory what its journal says, and what of it can be mended? Reads everything, trusts nothing."""
