"""Hadoop's local files in Spark's JVM: no process for each, and the rights that the settings give."""

import pytest

from streaming.pipeline.jvm_jar import LOCAL_FILES


@pytest.mark.spark
def test_a_file_of_hadoop_has_its_rights_without_a_process(spark, tmp_path):
    jvm, conf = spark.sparkContext._jvm, spark.sparkContext._jsc.hadoopConfiguration()
    hadoop = jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(jvm.java.net.URI("file:///"), conf)
    assert files.getClass().getName() == LOCAL_FILES
    files.create(hadoop.Path(str(tmp_path / "folder" / "file"))).close()
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "folder" / "file").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "folder" / ".file.crc").stat().st_mode & 0o777 == 0o640
