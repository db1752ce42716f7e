// Package csr approves and denies the certificate requests of our nodes' kubelets. It gathers what pkg/csr.Decide needs,
// asks it, and acts; the rules are in pkg/csr alone and for people in docs/security.md.
//
// A request that is not ours costs one parse and two look-ups in the cache. For one that is ours, host, Node and lease are
// read from the API server itself, since a cache may lag. A first client certificate is recorded in
// status.ticket.approvedCSR, under optimistic lock, before it is approved: of two operators that both think they lead, one
// approves, and a crash in between loses nothing, since the same request may be approved again.
//
// The package writes status.ticket.approvedCSR, the approval of requests and events, and nothing else. It opens no connection
// to any machine and asks no DNS server.
package csr
