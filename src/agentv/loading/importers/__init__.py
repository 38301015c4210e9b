"""Files of other programs and of older versions, translated into ours with their positions."""
