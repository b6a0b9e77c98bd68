"""Tables on disk: read, turned into numbers in the same way each time, and written."""
