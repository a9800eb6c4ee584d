"""Multiple choice between endings of a text (BERT paper, section 4.4); an example for new tasks."""
