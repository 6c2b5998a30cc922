"""What is known of models: windows, limits, powers, prices. A model that is not known is not refused."""
