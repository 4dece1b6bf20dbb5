"""Headrace: a distributed job queue on Redis/Valkey whose data pipeline runs on Spark."""
