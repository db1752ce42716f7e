// Package chaos holds no code, only the crash matrix and the storm: what can go wrong while a machine becomes a node goes wrong at every place where
// it can, and each time the node has to become Ready with nothing sent twice, nothing done twice and nothing half-written left; then everything goes
// wrong at once. `make test-chaos` runs it and ends with `N injections, N Ready, 0 sent twice`; what each promise rests on stands in
// docs/reliability.md.
//
// The matrix has two levels. The level is chosen by what a row needs:
//
//   - The machine alone (agent_test.go, lab_test.go): the real wmcb.exe over a modelled Windows, and a stand-in for the operator that does what
//     package controllers/host does: offer blobs, hand a plan over, follow it, reboot when asked. It runs in the time of a synctest bubble, so that
//     a thousand crashes take a minute: after every change that the agent makes to the disk and in the middle of the bytes of every write (killed,
//     or with the power), with a disk that is full for a while, and at every entry of its journal. What is killed before a change is what was killed after
//     the one before it. Ready means here: the agent reports InSync with both plans and the
//     machine equals one where nothing went wrong, file by file.
//   - The whole line (line_test.go, leader_test.go): one bed (package test/bed) with a real control plane and real operators as processes. Here go the rows
//     that are about the operator, its connections and the API server: cut, slow, dripping and hanging connections, operators killed, stopped and replaced
//     in each phase, a restarted API server, and a machine pulled from the wall in every step. Ready means here: condition Ready of
//     the WindowsHost with reason NodeReady, in sync with its newest plan, ticket gone.
//
// "Sent twice" is counted on the machine, where a blob whose bytes are right gets its final name: the second time that happens for a digest it
// was sent although it was there. A blob that was cut in the middle is not complete and may be sent again: that is the one blob a cut.
//
// # The storm
//
// TestStorm (storm_*_test.go) runs alone, on a bed of its own: fifty machines, two operators of which one leads, two minutes. planStorm, a pure function, deals
// the events from a seed: what happens when and to whom, each kind at least once, many of them at the same time. STORM_SEED repeats a storm: its events, not
// what the processors make of them. STORM_SECONDS and STORM_HOSTS change its size,
// CHAOS_LOGS is a folder that keeps the operators' logs. Then it is quiet: every host has to be Ready, but for the few with
// something that stays, whose Ready condition has to name that. A watcher checks the invariants (invariants_test.go) four times a second from the
// first moment to the last; each is a pure function with a test that shows that it can fail:
//
//   - No host is Ready whose applied plan is not the desired one: by its status, and by what lies on its machine, read while the object did not change.
//   - No certificate is approved for a node that no WindowsHost of that moment stands for, none for a stranger, no second one for a ticket.
//   - No plan is worked on after a newer one was accepted: every journal entry of every machine.
//   - One writer a machine: once a connection has changed the plan or the blobs of a machine, no earlier connection does. A connection belongs to one
//     operator, so that this holds between two operators, and between two connections of one: what was under way on a connection that was given up
//     and comes late is refused.
//   - In the end the machines have as many connections as the operator has sockets, and none when it has ended; no goroutine is more in this process
//     than before; no temporary file is on a machine or in the operators' temporary folder.
//
// # What they do not prove
//
// That a connection which falls silent while the payload is sent is given up: it takes the keepalive 45 seconds and is shown in
// pkg/transport/ssh; in the matrix the agent is at work when it happens. That Windows loses after a crash what the modelled disk loses (see package fake:
// a rename is durable at once, unsynced bytes are zeros or gone); that a line that is cut each time before a block of a
// blob has gone through ever gets there: a transfer goes on where it ended, in steps of a zstd block. Changes to services, registry, firewall and HNS are
// crashed between disk changes only, not inside one call, since the model makes such a call whole. Kernel, file system and SSH daemon never crash by
// themselves. The stand-in operator of the matrix's first level retries without the backoff and the conditions of the real one.
//
// The storm samples: what no seed has dealt is not shown. The agent's own upload, which is a file under a temporary name, is not among what counts as
// writing, nor is what the agent's service does on its own. Machines and operators share one kernel, clock and loopback: the clock that is moved is that of
// Windows programs only, a lost link resets connections instead of swallowing packets, and etcd never fails. Goroutines are counted in the process of the
// simulated machines; of the operators, which are processes of their own, sockets and files.
package chaos
