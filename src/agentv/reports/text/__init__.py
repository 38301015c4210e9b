"""Parts of every report: amounts, signs, tables, widths, sheets, printable text."""
