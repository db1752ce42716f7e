// Command boot is process 1 of a machine of Wine: it makes the mounts, sets the host name, boots Wine when it reads "on", lets it write the
// registry and ends with "off", and buries orphans. It ends with whoever holds its standard input, and the machine with it.
package main
