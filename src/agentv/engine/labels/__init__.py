"""What people say of stored answers: labels, review queues, failure categories; and how well judges agree with it."""
