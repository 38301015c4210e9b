"""Building blocks of reports: amounts, signs, tables, widths, sheets, printable text."""
