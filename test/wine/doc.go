// Package wine makes Windows machines of Wine: each a set of Linux namespaces with its own address, host name and disk, in which the real
// wmcb.exe, kubelet.exe, containerd.exe and kube-proxy.exe run under Wine's own service manager, registry and file system. They are
// switched on and off, and pulled from the wall.
//
// What Wine lacks is put there by small C libraries in shim, each of which says what it stands in for and what it invents; package hns is the
// network service. Programs that lie under Wine, powershell.exe among them, are replaced by one that records who started it and fails.
//
// It needs root on Linux, debootstrap for Wine 10 and mingw for the shims, and installs what is missing; Prepare says how long that takes. What it
// does not prove: containers, access lists, the service manager's recovery and order of start, the firewall, real reboots. Say "Wine + shims" of what was
// seen here, never "on Windows". It may import package hns, the standard library, x/sys and x/crypto/ssh.
package wine
