"""Token classification: named entities, parts of speech (BERT paper, section 5.3)."""
