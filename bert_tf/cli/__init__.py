"""The command line, the only package that uses absl flags."""
