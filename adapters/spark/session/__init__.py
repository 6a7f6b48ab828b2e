"""The Spark session: the installed Spark and its errors, Java, and the jars."""
