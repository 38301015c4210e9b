"""Model APIs over HTTP: requests built, replies parsed, embeddings, batches."""
