"""Files that travel with the package: the tiny policy that the demo starts from."""
