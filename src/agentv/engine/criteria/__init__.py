"""The criteria door: given answers judged by named criteria."""
