"""Classification and embeddings: whole answers of an encoder, where generations stream."""
