"""What contexts of all kinds share: deciding, recording, reading a past version."""
