"""Commands on people's labels, and on judges measured against them: label, judge."""
