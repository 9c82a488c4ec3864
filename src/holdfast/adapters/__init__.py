"""What the interfaces for other libraries share."""
