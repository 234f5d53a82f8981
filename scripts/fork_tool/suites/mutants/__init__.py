"""Small faults planted one after the other, and which suite notices each."""
