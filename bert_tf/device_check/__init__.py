"""The checks behind `bert-tf check`: devices must reproduce recorded results."""
