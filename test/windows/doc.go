// Package windows exercises every kind of step of pkg/agent/step on the machine that it runs on, through pkg/agent/system: it looks, applies,
// looks again, applies once more, takes back, looks a last time, and writes down what it changed and what came of it.
//
// Its test program is cross-built and taken to a Windows Server (docs/testing.md says how), where the flag
// -change-this-machine lets it loose. Without the flag, and on other systems, the same exercises run over the modelled
// Windows of pkg/agent/system/fake, so that they are known to be right before anybody spends a machine on them.
//
// Promises: everything that it makes has wmo-test in its name or is one of the documentation's addresses; it is taken back also after a
// failure, except a Windows feature, which is enabled only if asked for; a failure of one exercise does not hide the others.
//
// What it does not prove: that a container runs, that packets flow over a network that was made, and what only a reboot
// shows. The results of people's runs lie in results; hack/evidence makes the README's table of them. It may import the agent, and nothing of the
// operator.
package windows
