"""The tasks, one package each: data, features, losses, metrics, results and export."""
