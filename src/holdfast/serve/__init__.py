"""A durable learner over HTTP."""
