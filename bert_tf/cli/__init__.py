"""The command line: the only package that reads absl flags.

`flags` has the shared flag groups and starts a script, the other modules turn flags into typed
configurations or are commands of `bert-tf`.
"""
