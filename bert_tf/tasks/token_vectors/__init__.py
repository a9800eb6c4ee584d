"""Token vectors of a pre-trained model."""
