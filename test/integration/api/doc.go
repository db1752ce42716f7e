// Package api holds no code, only tests of what an admin applies and of what the operator's account may do, on a real API server: every
// rule of the two CustomResourceDefinitions, the defaults that the server fills in, what kubectl shows, the samples, config/default, and
// the rights of the operator's own service account, to the last verb.
//
// What it does not prove: that a distribution's admission webhooks or quotas let the objects in, and that a kubelet can run the Deployment.
package api
