"""Model preparation and adapter training: what runs once, before anything is served."""
