// Package synthetic makes reproducible events for the tests of learners, inside and outside of package online. It knows no
// learner.
package synthetic
