"""Read and append to files of lines, of which parts may be in other folders or object stores."""
