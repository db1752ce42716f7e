// Package chaos holds no code, only the crash matrix: what can go wrong while a machine becomes a node goes wrong at every place where it can,
// and each time the node has to become Ready with nothing sent twice, nothing done twice and nothing half-written left. `make test-chaos` runs it
// and ends with `N injections, N Ready, 0 sent twice`; what each promise rests on stands in docs/reliability.md.
//
// It has two levels. The level is chosen by what a row needs:
//
//   - The machine alone (agent_test.go, lab_test.go): the real wmcb.exe over a modelled Windows, and a stand-in for the operator that does what
//     package controllers/host does: offer blobs, hand a plan over, follow it, reboot when asked. It runs in the time of a synctest bubble, so that
//     a thousand crashes take a minute: after every change that the agent makes to the disk and in the middle of the bytes of every write (killed,
//     or with the power), with a disk that is full for a while, and at every entry of its journal. What is killed before a change is what was killed after
//     the one before it. Ready means here: the agent reports InSync with both plans and the
//     machine equals one where nothing went wrong, file by file.
//   - The whole line (the other files): one bed (package test/bed) with a real control plane and real operators as processes. Here go the rows
//     that are about the operator, its connections and the API server: cut, slow, dripping and hanging connections, operators killed, stopped and replaced
//     in each phase, a restarted API server, and a machine pulled from the wall in every step. Ready means here: condition Ready of
//     the WindowsHost with reason NodeReady, in sync with its newest plan, ticket gone.
//
// "Sent twice" is counted on the machine, where a blob whose bytes are right gets its final name: the second time that happens for a digest it
// was sent although it was there. A blob that was cut in the middle is not complete and may be sent again: that is the one blob a cut.
//
// # What the matrix does not prove
//
// That a machine comes back quickly when its power fails in the moment after its certificate was approved and before its kubelet has written the key
// down: its ticket is used then, and it gets another one three minutes after the approval only (TestTicketIsRenewed in controllers/host); the matrix
// kills the agent with the power, so that no kubelet is started in between. That a connection which falls silent while the payload is sent is given up: it takes the keepalive 45 seconds and is shown in
// pkg/transport/ssh; here the agent is at work when it happens. That Windows loses after a crash what the modelled disk loses (see package fake: a rename is durable at once, unsynced bytes are zeros or
// gone); that two faults at once are survived, except where a row says so; that a line too bad to carry its largest blob whole in one connection
// ever gets there: a transfer goes on after the last whole blob, not in the middle of one. Changes to services, registry, firewall and HNS are
// crashed between disk changes only, not inside one call, since the model makes such a call whole. Kernel, file system and SSH daemon never crash by
// themselves. The stand-in operator of the first level retries without the backoff and the conditions of the real one.
package chaos
