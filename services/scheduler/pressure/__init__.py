"""What the device's state takes away from requests, and how it gives it back."""
