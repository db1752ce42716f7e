// Package lead makes sure that an operator which has lost the lead stops working at once. An operator that was suspended, with its machine or by
// itself, wakes up as the leader that it was; client-go lets one go on for as long as it may try to renew its lease, ten seconds, although it has read that
// somebody else holds it.
//
// It promises two things: a Lock whose holder reads another holder's name calls Lost, which has to end the process; and Holds is false as soon as
// others may have the lease, by this process's own clock, so that nothing new is begun before the lease could be read. The clock of a
// virtual machine that was suspended as a whole may not have seen the time go by: then the first reading decides.
//
// It may import client-go's leader election and nothing of this repository.
package lead
