"""The edge: Flask is known here and nowhere else."""
