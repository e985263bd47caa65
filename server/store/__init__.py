"""Where models come from: aliases, files, folders, packages, the hub."""
