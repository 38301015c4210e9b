"""Model APIs over HTTP: requests built, responses parsed, embeddings, batches."""
