"""What commands do to elements and their deadlines, on real servers."""
