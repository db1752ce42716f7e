// Command setup prepares what machines of Wine are made of: it installs debootstrap and mingw where they are missing, makes Wine 10 in a root of its
// own, the shims and a template disk, all below ${XDG_CACHE_HOME:-~/.cache}/windowsmachine/wine, and says how long that takes. A second run does
// nothing. It needs root on Linux.
package main
