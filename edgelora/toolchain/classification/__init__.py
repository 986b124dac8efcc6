"""Training a classifier: an encoder's adapter with a head, and when a text is out of scope."""
