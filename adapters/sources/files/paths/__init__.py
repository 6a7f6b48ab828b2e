"""What the paths of plain files say: their order, their snapshot, and values of columns."""
