"""The OpenAPI document of the tenants' listener, written by hand beside the routes."""
