//! A small storage engine on `bufpool`: heap file and B+-tree.
