"""What the program is made of, and whether something known is wrong with it: `make sbom`, `make audit`."""
