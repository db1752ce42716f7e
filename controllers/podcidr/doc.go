// Package podcidr gathers what pkg/podcidr judges, for each WindowsNodeProfile whose network mode needs a pod range on every Node, and hands
// the result to the controllers of hosts and of profiles through a podcidr.Store, of which it is the only writer. Where the profile says so it
// gives ranges to the Nodes of our hosts, and is then the only one who does.
//
// Pods are many. They are read past the cache, in pages, and of each only its Node and its addresses are kept: once in 10 minutes while all
// hosts are Ready, once in two minutes while one is not, and once in 30 seconds while they stand in its way; never without a host.
package podcidr
