"""The tests of protoedge; they mirror the packages."""
