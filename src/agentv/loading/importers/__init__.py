"""Files of other programs and of older versions, translated into ours with positions kept."""
