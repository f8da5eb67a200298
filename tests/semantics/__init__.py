"""What commands do to elements and their deadlines, before real servers."""
