// Package hns is a Host Networking Service in memory, for machines of Wine: networks, endpoints, namespaces, load balancers and SDN routes as
// the documents that HNS takes and gives, a state file that outlives a boot, and a journal of all calls.
//
// It refuses what HNS refuses and tests rely on: a second network of the same name, unknown networks, types and policies, load balancers with a
// front end that is taken or with unknown endpoints, documents that are no JSON, modifications that an object does not know. What it does not prove: that Windows takes a document that it takes; nothing is
// switched, no address is moved. It may import the standard library only.
package hns
