"""The whole product as processes of one machine: started, watched, restarted and stopped."""
