"""The run directory: files, lock, manifest, and the store that writes and reads them."""
